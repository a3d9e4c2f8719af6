"""What a view holds whatever its host: a state, what it computes, and what its pictures show."""
