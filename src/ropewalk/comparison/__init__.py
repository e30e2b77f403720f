"""One small decoder, trained alike under each encoding, and measured beyond its trained length."""
