"""The workbench as a page for people without notebooks: the same canvas, figures and sessions.

Panel serves it. Each visitor has a session of their own. The page asks no other host for anything; it is
served on the loopback interface unless a token protects it.
"""
