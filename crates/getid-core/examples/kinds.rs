//! Prints an ID of every kind at one instant, and the fields read back from it.

use getid_core::{Declaration, FieldLayout, KINDS, NamedGenerator, RandomCycle, Role, UtcMs, no_dates};

/// 2026-01-01, Unix time in ns.
const AT_UNIX_NS: i128 = 1_767_225_600_000_000_000;

const SERVER_ID: u32 = 1;

/// Stands in for random bits.
const NOISE: u128 = 0x9f86_d081_884c_7d65_9a2f_eaa0_c55a_d015;

fn declaration(kind: &str) -> Declaration {
    let mut words = vec!["my-ids", kind];
    // The kind `layout` has fields of your choice.
    words.extend(if kind == "layout" { &["time:41@1ms", "server-id:10", "counter:12"][..] } else { &[] });
    let mut declaration = Declaration::parse(&words, no_dates).expect("words as docs/generators.md has them");
    // Draws the values that are drawn once and kept, such as the node of a UUID of version 1.
    declaration.draw_missing(|_, bits| u64::try_from(NOISE >> (128 - bits)).expect("a field has 64 bits at most"));
    declaration
}

fn main() {
    for kind in KINDS {
        let declaration = declaration(kind.word);
        let layout = declaration.layout();
        // A real program shuffles the values.
        let cycle = RandomCycle::new((0..1 << layout.bits_of(Role::Random)).collect());
        let generator = NamedGenerator::new(declaration.clone(), SERVER_ID, cycle).expect("it fits");

        // A slot is the time and the counter as one number. A `Mint` finds the free ones.
        let Some(tick) = layout.tick_at(AT_UNIX_NS).or((!layout.has_time()).then_some(0)) else {
            println!("{:<16} ended {}", kind.word, UtcMs(layout.end_unix_ms()));
            continue;
        };
        let slot = tick << layout.counter_bits();
        // A value that comes with the request, such as a shard.
        let request = generator.request_fields().iter().map(|field| field.place(7)).sum();
        let number = generator.number(slot, 0, NOISE, request);
        let mut text = Vec::new();
        assert!(declaration.write(number, &mut text));
        let text = String::from_utf8(text).expect("ASCII");
        println!("{:<16} {text}", kind.word);

        // Read the text back.
        let number = declaration.read(&text).expect("an ID of this kind");
        let time = layout.tick_of(number).map(|tick| UtcMs(layout.unix_ms(tick)));
        print!("    {}", time.map_or("no time".to_owned(), |time| time.to_string()));
        for (field, shift) in layout.places().filter(|(field, _)| field.role != Role::Time) {
            print!(" {} {}", field.name, FieldLayout::value(field, shift, number));
        }
        println!();
    }
}
