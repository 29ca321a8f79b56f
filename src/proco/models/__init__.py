"""Networks: backbones from images to features, and heads from features to logits and embeddings."""
