"""Rotary schedules as numbers: what a model says of position, and the angles that follow.

Nothing here imports torch or numpy at the top: `spec` holds values, `scaling` the types of
scaling, `frequencies` the one place where each formula stands, `diagnostics` what to read
off them, `override` the schedules a user asks for by name.
"""
