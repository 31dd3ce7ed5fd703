"""The judge on series that are worked out by hand: python -m unittest test_judge (in this folder)."""

import csv
import pathlib
import tempfile
import unittest

from judge import Misfit, judge


class JudgeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.data = str(pathlib.Path(self.folder.name) / "d.csv")
        self.predictions = str(pathlib.Path(self.folder.name) / "p.csv")
        # 10 rows: 7 train (mean 2, variance 8/7), 2 test (values 5 and 9).
        values = [0, 2, 4, 2, 2, 2, 2, 3, 5, 9]
        with open(self.data, "w", encoding="utf-8") as file:
            file.write("date,y,constant,text\n")
            file.writelines(f"{2000 + i},{v},1,a\n" for i, v in enumerate(values))

    def write(self, rows):
        with open(self.predictions, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["window", "step", "date", "y", "y_actual"])
            writer.writerows(rows)

    def run_judge(self, horizon=1):
        return judge(self.data, horizon, 2, None, "date", self.predictions)

    def test_errors_are_scaled_by_the_training_rows(self):
        self.write([[0, 1, "2008", 6, 5], [1, 1, "2009", 9, 9]])
        result = self.run_judge()
        self.assertEqual((result["windows"], result["columns"]), (2, 1))
        self.assertAlmostEqual(result["forecast"]["mse"], 0.5 * 7 / 8)
        # Last value: 3 for 5, 5 for 9; season of two: 2 for 5, 3 for 9.
        self.assertAlmostEqual(result["last_value"]["mse"], (4 + 16) / 2 * 7 / 8)
        self.assertAlmostEqual(result["seasonal_naive"]["mse"], (9 + 36) / 2 * 7 / 8)
        self.assertAlmostEqual(result["forecast"]["ratio"], 0.5 / 10)

    def test_what_does_not_fit_is_refused(self):
        for rows, text in [
            ([[0, 1, "2008", 6, 5]], "window 1 of series '' is missing"),
            ([[0, 1, "2008", 6, 9], [1, 1, "2009", 9, 9]], "y is 5.0 in the file and 9.0"),
            ([[1, 1, "2008", 6, 5], [1, 1, "2009", 9, 9]], "row 1 is"),
            ([[0, 1, "2008", "nan", 5], [1, 1, "2009", 9, 9]], "not finite"),
            ([[0, 1, "2008", 6, 5], [1, 1, "2009", 9, 9], [2, 1, "2010", 1, 1]], "1 rows too many"),
        ]:
            self.write(rows)
            with self.assertRaisesRegex(Misfit, text.replace("(", "\\(")):
                self.run_judge()
        with self.assertRaisesRegex(Misfit, "2 test rows hold no window of horizon 3"):
            self.run_judge(3)


if __name__ == "__main__":
    unittest.main()
