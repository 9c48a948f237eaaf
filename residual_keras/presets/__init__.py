"""Trained models that come with the package, and those that users share.

A preset is a folder: preset.json, which says all of it but the weights, weights.npz and
README.md, its card. Those of the package lie beside this file. Its public names are
`residual_keras.list_presets`, `describe_preset`, `load_preset` and `save_to_preset`.
"""
