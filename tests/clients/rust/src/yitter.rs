//! IDs of the crate idgenerator, a port of yitter's generator to Rust, for `tests/server/kinds.rs`.

use idgenerator::{IdGeneratorOptions, IdInstance};

/// Prints 100 IDs of worker 43, with the widths that yitter's other ports have by default.
pub fn print() {
    let options = IdGeneratorOptions::new().worker_id(43).worker_id_bit_len(6).seq_bit_len(6);
    IdInstance::init(options).expect("valid options");
    (0..100).for_each(|_| println!("{}", IdInstance::next_id()));
}
