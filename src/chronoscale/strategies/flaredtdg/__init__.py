"""FlareDTDG (Huang et al.; PVLDB 19(7), 2026): hybrid batches with temporal decay, shrinking, adaptive overlap."""
