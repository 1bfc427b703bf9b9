"""Tables and figures of Pollux, and questions beyond them."""
