"""What a machine with a GPU is asked, part by part: `make gpu`; docs/gpu.md."""
