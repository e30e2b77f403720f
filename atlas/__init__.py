"""Tables measured on other software, and what measures them."""
