"""Rotary schedules as numbers: what a model says of position, and the angles that follow.

Nothing here imports torch or numpy at the top: `spec` holds values, `schedules` a record for each
way of rescaling with its formula, `frequencies` puts an encoding through it, `angles` is what comes
of that and its fingerprint, `diagnostics` what to read off before a model runs, `override` the
schedules a user asks for by name, `checks` the refusals.
"""
