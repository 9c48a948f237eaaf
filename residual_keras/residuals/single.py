"""Schemes whose state is one tensor, with norms placed around the addition."""

from .base import Residual, register


@register("post_ln")
class PostNorm(Residual):
    """x <- LN(x + f(x)).

    The published Transformer. Every token leaves a sublayer with unit variance, and the
    gradient decays on its way down: deep stacks need warm-up, and beyond some eighteen
    blocks more help than that.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1.
    """

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)

    def write(self, state, update, i):
        return self.norms[i](state + update)


@register("pre_ln")
class PreNorm(Residual):
    """x <- x + f(LN(x)), and LN at the end of the stack.

    The path along x is the identity, so gradients reach every block from the first step
    and warm-up is not needed; the stream grows with depth, so late blocks change it
    little.

    Source: Xiong et al. 2020, arXiv:2002.04745.
    """

    final_norm = True

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)

    def read(self, state, i):
        return self.norms[i](state)


@register("none")
class NoResidual(Residual):
    """x <- f(x), and LN at the end of the stack: the shortcut taken away.

    An ablation, not for use. Each block makes the tokens of a text more alike (rank
    collapse). With twelve blocks the model stays at chance, 0.500, where the order of
    words decides (`reviews(depth=1)`, tests/test_goals.py); it can still learn which
    words a text holds. Source: Dong et al. 2021, arXiv:2103.03404.
    """

    final_norm = True

    def write(self, state, update, i):
        return update
