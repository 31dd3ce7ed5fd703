//! Arguments that say what the columns beside the targets are.

use clap::Args as Group;
use landfall_forecast::run::named;
use landfall_train::data::Calendar;

/// What the columns beside the targets are.
#[derive(Debug, Group)]
pub(crate) struct CovariateArgs {
    /// Columns whose values are known in the rows to forecast, such as prices or promotions.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) known_future: Option<Vec<String>>,
    /// Columns with one value for each series, such as a size or a region.
    #[arg(long = "static", value_name = "A,B", value_delimiter = ',')]
    pub(super) fixed: Option<Vec<String>>,
    /// Columns whose values are names: each name becomes a column of 0 and 1. At most 64 names.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) categorical: Option<Vec<String>>,
    /// Features of the dates as covariates: those that suit the frequency, or some of minute, hour, weekday, day, day-of-year,
    /// week, month, quarter.
    #[arg(long, value_name = "F,G", value_delimiter = ',', num_args = 0.., value_parser = named::<Calendar>)]
    pub(super) calendar: Option<Vec<Calendar>>,
}
