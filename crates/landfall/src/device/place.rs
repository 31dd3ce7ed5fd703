//! Which ranks a device computes with.

use crate::error::Error;
use crate::ranks::World;
use crate::values::RankFault;
use std::sync::OnceLock;

/// The world that a device has joined, once.
#[derive(Debug, Default)]
pub(crate) struct Place {
    joined: OnceLock<World>,
}

/// The world of a device that joined none.
static ALONE: OnceLock<World> = OnceLock::new();

impl Place {
    /// The world: of one rank, unless it joined another.
    #[inline]
    pub(crate) fn get(&self) -> &World {
        self.joined.get().unwrap_or_else(|| ALONE.get_or_init(World::single))
    }

    /// Joins a world.
    ///
    /// # Errors
    /// [`RankFault::Joined`].
    pub(crate) fn join(&self, world: World) -> Result<(), Error> {
        self.joined.set(world).map_err(|_| {
            let (rank, size) = (self.get().rank(), self.get().size());
            RankFault::Joined { rank, size }.into()
        })
    }
}
