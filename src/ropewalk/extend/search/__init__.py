"""Divisors of one's own: an evolutionary search, its diary, and the test that it has to pass."""
