"""The command line. Modules here import torch inside the commands only, so that help comes at once."""
