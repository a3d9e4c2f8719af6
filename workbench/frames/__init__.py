"""Frames in time: where they come from, a model of them, and what a lifted curve renders to.

`files` reads a user's own (arrays, pictures, a video) and names what all frames have, `FrameSet`;
`recordings` reads windows of human signals, `glyphs` draws letters of the fonts at hand; `wake` computes a
flow past a cylinder and `wake_set` is the set of its frames that is shipped. `models` opens any of them by
name or path and trains a small diffusion model where there is none. `rendering` turns curves of latents into
films and scores frames that nothing has seen; `crossing` follows a curve from one condition to another, and
`factors` keeps one of two known factors and changes the other.
"""
