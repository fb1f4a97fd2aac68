"""Command `conform`: judge an algorithm by the cases of a suite: a draft's, or RFC 9743's."""
