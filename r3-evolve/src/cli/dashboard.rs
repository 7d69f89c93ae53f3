//! What somebody who watches a search over source sees.

use super::terminal::Terminal;
use crate::evolve::progress::{Dashboard, Observe};
use crate::report;

impl Observe for Terminal {
    fn dashboard(&mut self, dashboard: &Dashboard) {
        let found = dashboard
            .best
            .as_ref()
            .map(|best| best.variant.0.unsigned_abs() ^ best.ratio.median.to_bits());
        self.show(dashboard.phase, found, |width| {
            report::dashboard(dashboard, width)
        });
    }
}
