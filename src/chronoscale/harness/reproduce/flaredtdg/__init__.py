"""FlareDTDG's tables and figures."""
