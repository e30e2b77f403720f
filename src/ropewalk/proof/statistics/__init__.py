"""From kept answers to intervals, verdicts and an effective length.

The interval is Wilson's score interval (E. B. Wilson, 1927) at 95 %, or where the questions of a
trial are asked of one document an interval over documents (`clusters`). Lengths are judged pooled
over their depths, because a single cell of a few trials says almost nothing: three hits of
three have a lower end of 0.44. Outcomes other than HIT, MISS and WRONG never count in an
accuracy, and a length of which too few answers could be judged (COVERAGE) gets no verdict.
"""
