//! Draws a layout as boxes, the most significant field first, in lines that fit a terminal.
//!
//! ```text
//!  62                             21           16       11
//! +------------------------------+------------+--------+------------+
//! |           time 41            | datacenter | worker |  counter   |
//! ```

use std::fmt::Write as _;

use getid_core::FieldLayout;

/// Largest width of a line, columns; wider layouts continue in the next line.
const COLUMNS_MAX: usize = 78;

/// Largest width of a box, columns; wider fields are not drawn wider.
const BOX_COLUMNS_MAX: u32 = 28;

/// Draws the boxes. The number of the highest bit is above each box, the name and the width are in it.
pub(crate) fn picture(layout: &FieldLayout) -> String {
    let boxes: Vec<FieldBox> = layout
        .places()
        .map(|(field, shift)| {
            let (name, bits) = (field.name.clone(), counted_bits(field.bits));
            let top = (shift + field.bits - 1).to_string();
            let least = name.len().max(bits.len()).max(top.len()) + 2;
            FieldBox { columns: least.max(field.bits.min(BOX_COLUMNS_MAX) as usize), top, name, bits }
        })
        .collect();
    let mut text = String::new();
    let mut rest = boxes.as_slice();
    while !rest.is_empty() {
        let mut columns = 1;
        let fit = rest.iter().take_while(|one| {
            columns += one.columns + 1;
            columns <= COLUMNS_MAX
        });
        // A box alone in its line may be wider.
        let (line, following) = rest.split_at(fit.count().max(1));
        draw(line, &mut text);
        rest = following;
    }
    text
}

struct FieldBox {
    columns: usize,
    top: String,
    name: String,
    bits: String,
}

fn draw(boxes: &[FieldBox], text: &mut String) {
    let line = |cell: &dyn Fn(&FieldBox) -> String| boxes.iter().map(cell).collect::<Vec<_>>().concat();
    let tops = line(&|one| format!("  {:<1$}", one.top, one.columns - 1));
    let edge = line(&|one| format!("+{}", "-".repeat(one.columns)));
    let names = line(&|one| format!("|{:^1$}", one.name, one.columns));
    let bits = line(&|one| format!("|{:^1$}", one.bits, one.columns));
    let _ = writeln!(text, "{}\n{edge}+\n{names}|\n{bits}|\n{edge}+", tops.trim_end());
}

fn counted_bits(bits: u32) -> String {
    getid_text::plural::counted(bits.into(), "bit")
}

#[cfg(test)]
mod tests {
    use getid_core::{Declaration, no_dates};

    use super::*;

    fn drawn(words: &str) -> String {
        let words: Vec<_> = words.split(' ').collect();
        picture(Declaration::parse(&words, no_dates).unwrap().layout())
    }

    #[test]
    fn boxes_show_fields_in_their_order() {
        assert_eq!(
            drawn("t twitter"),
            "  62                           21           16       11
+----------------------------+------------+--------+------------+
|            time            | datacenter | worker |  counter   |
|          41 bits           |   5 bits   | 5 bits |  12 bits   |
+----------------------------+------------+--------+------------+
"
        );
    }

    #[test]
    fn every_layout_fits_a_terminal() {
        let many: Vec<String> = (0..70).map(|n| format!("f{n}:1")).collect();
        let values: Vec<String> = (0..70).map(|n| format!("f{n} 0")).collect();
        let many = format!("x layout time:41@1ms {} counter:10 {}", many.join(" "), values.join(" "));
        for words in ["x uuid7", "x hibernate", "x uuid4", "x timestamp-us", many.as_str()] {
            let text = drawn(words);
            assert!(text.lines().all(|line| line.len() <= COLUMNS_MAX && line.trim_end() == line), "{text}");
        }
    }
}
