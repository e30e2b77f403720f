"""What each engine computes for the very same settings, and where two of them part.

`views` puts a spec through every engine; each engine is one module with a table of rules, a
function for each type of scaling. `given` holds what a rule gets and what it answers.
"""

from ropewalk.dialects.engines.given import EngineView, Parting
from ropewalk.dialects.engines.views import ENGINES, as_computed, engine_views, parting, partings

__all__ = ["ENGINES", "EngineView", "Parting", "as_computed", "engine_views", "parting", "partings"]
