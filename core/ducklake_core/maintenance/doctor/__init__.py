"""The doctor: looks a lake over, tells what is broken in it and what helps, and mends what cannot lose data."""
