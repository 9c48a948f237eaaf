"""Encoder and objective as one model to fit."""

import keras


class Pretrainer(keras.Model):
    """Token ids, packed rows (batch, time) -> the objective's loss.

    Args:
        encoder: a functional model, ids (batch, time) -> (batch, time, embed_dim), with
            a `TokenAndPositionEmbedding` called "embedding".
        objective: an `Objective`.
        **kwargs: of `keras.Model`.
    """

    def __init__(self, encoder, objective, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder
        self.objective = objective
        objective.build(encoder.output_shape)
        self.built = True  # both parts are

    def call(self, ids, training=False):
        read, answers = self.objective.ask(ids, training)
        x = self.encoder(read, training=training)
        table = self.encoder.get_layer("embedding").tokens.embeddings
        return self.objective.loss(
            x, answers, keras.ops.convert_to_tensor(table), training
        )

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        return y_pred

    def calibrate(self, ids):
        """Sets what the scheme reads off one batch before training, if it does.

        Args:
            ids: the first batch, int (batch, time).
        """
        scheme = self.encoder.get_layer("encoder").residual
        scheme.calibrate(lambda: self.encoder(ids, training=False))
