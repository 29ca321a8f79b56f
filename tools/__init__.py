"""Programs that make files of this repository from others."""
