"""FlareDTDG: hybrid batching with temporal decay, shrinking, overlap of communication and computation."""
