"""Pretraining: an encoder that has read many texts before it sees a label."""
