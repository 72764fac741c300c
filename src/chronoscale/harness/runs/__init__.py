"""Run folders: how they are begun and taken up again, and the records in them."""
