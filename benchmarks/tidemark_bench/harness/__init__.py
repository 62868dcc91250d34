"""What every benchmark needs: the clock, databases and rivals under it, and the showing and writing of figures."""
