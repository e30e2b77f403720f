"""Rotary schedules as numbers: what a model says of position, and the angles that follow.

Nothing here imports torch or numpy at the top: `spec` holds values, `scaling` the types of
scaling, `frequencies` the one place where each formula stands, `angles` what they give and its
fingerprint, `compose` one scaling on another, `diagnostics` and `distances` what to read off
before a model runs, `override` the schedules a user asks for by name, `checks` the refusals.
"""
