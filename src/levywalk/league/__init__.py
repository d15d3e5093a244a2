"""The league: pairs of a walk and an update, side by side on the same networks and problems."""
