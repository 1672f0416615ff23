//! What gives IDs: generators, each with a name and a kind, in one registry.
//!
//! A generator is told by its name where somebody asks (a command, a configuration), and by its index in the registry
//! from there on. So far there is one: the unnamed one, of the kind `time`, at index 0. It is asked without a look at
//! any table.
//!
//! What a kind must provide: `try_draw`, one step that gives up to n at once and never waits; `draw`, a future that
//! gives all of them or a refusal, waits in a fair queue, and can be dropped; a `status` for INFO; and its share of the
//! last act, when the server stops. What it gives is ascending, and never given by two of its kind. How an ID is
//! written as a number or a text is the session's, which writes replies; and so is which name has which index, because
//! it must be known while a request is read.
//!
//! Clock, watermark and borrow limit are the server's and live in the unnamed generator's issuer.

pub mod end_of_life;
mod keeper;
mod status;
pub mod time;

use std::sync::Arc;

use getid_core::{Refusal, Reservation};

pub use self::keeper::{Keeper, KeeperError};
pub use self::status::NamedStatus;
use self::time::Issuer;

/// The generators of a server, by index.
pub struct Generators {
    by_index: [Arc<Issuer>; 1],
}

impl Generators {
    /// The registry of a server that has no named generators.
    pub fn new(unnamed: Arc<Issuer>) -> Generators {
        Generators { by_index: [unnamed] }
    }

    /// The issuer of the unnamed generator, which has the server's clock, watermark and limits.
    #[inline]
    pub fn unnamed(&self) -> &Arc<Issuer> {
        &self.by_index[0]
    }

    /// What the named generators say of themselves, by index.
    pub fn named(&self) -> Vec<NamedStatus> {
        Vec::new()
    }

    /// [`Issuer::try_draw`] from the generator with this index.
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_draw(&self, generator: usize, n: u32) -> Result<Option<Reservation>, Refusal> {
        self.by_index[generator].try_draw(n)
    }

    /// [`Issuer::draw`] from the generator with this index.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn draw(
        &self,
        generator: usize,
        n: u32,
        drawn: &mut Vec<Reservation>,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        self.by_index[generator].draw(n, drawn)
    }
}
