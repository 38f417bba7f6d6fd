//! The renderer: one layout for every chart, with nothing drawn over the data.
//!
//! From top to bottom: title, subtitle, then for each panel its unit and legend, the names of marks,
//! and the plot; under the last one the time axis, and a footer. Leans on `canvas` and `axis`.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::canvas::{Align, Canvas, Paint, TextPlace, Type, bold, plain, width_of};
use super::{Chart, Layer, Mark, Panel, Shape};

/// Width of a chart in units.
pub(super) const WIDTH: f64 = 960.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = WIDTH - 28.0;
const TITLES: f64 = 66.0;
const HEADER: f64 = 32.0;
/// Height of a row of names of marks, and how many there are at the most.
const MARK_NAMES: f64 = 18.0;
const MOST_ROWS: usize = 4;
const BETWEEN: f64 = 12.0;
const AXIS: f64 = 52.0;
const FOOTER: f64 = 26.0;

type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// A plot on the sheet.
#[derive(Clone, Copy)]
struct Frame {
    top: f64,
    bottom: f64,
}

/// The name of a mark where it is written: in this row from the plot on, so far to each side of its middle.
struct MarkName<'a> {
    mark: &'a Mark,
    middle: f64,
    half: f64,
    row: usize,
}

impl Chart {
    /// Height of the chart in units.
    pub(super) fn height(&self) -> f64 {
        let panels = self.panels.len() as f64;
        TITLES
            + panels * (HEADER + self.panel_height())
            + (panels - 1.0) * BETWEEN
            + self.mark_names()
            + AXIS
            + FOOTER
    }

    fn panel_height(&self) -> f64 {
        match self.panels.len() {
            1 => 300.0,
            2 => 165.0,
            _ => 130.0,
        }
    }

    /// Height of the names of marks.
    fn mark_names(&self) -> f64 {
        let rows = self.names_of_marks().iter().map(|name| name.row + 1).max();
        rows.unwrap_or(0) as f64 * MARK_NAMES
    }

    /// Draws the chart on any backend.
    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        text: TextPlace,
    ) -> Drawn<DB> {
        let canvas = Canvas::new(area, text);
        canvas.fill(Paint::Paper)?;
        canvas.text(
            &self.title,
            (LEFT - 52.0, 25.0),
            bold(17.0, Paint::Ink),
            Align::Left,
        )?;
        let subtitle = plain(13.0, Paint::Muted);
        canvas.text(&self.subtitle, (LEFT - 52.0, 48.0), subtitle, Align::Left)?;
        let frames = self.frames();
        if let (Some(first), Some(last)) = (frames.first(), frames.last()) {
            for frame in &frames {
                self.draw_marks(&canvas, *frame)?;
            }
            self.draw_mark_names(&canvas, first.top - MARK_NAMES / 2.0)?;
            for (panel, frame) in self.panels.iter().zip(&frames) {
                self.draw_panel(&canvas, panel, *frame)?;
            }
            self.draw_time_axis(&canvas, last.bottom)?;
        }
        let footer = (LEFT - 52.0, self.height() - FOOTER / 2.0 - 2.0);
        canvas.text(&self.footer, footer, plain(11.0, Paint::Muted), Align::Left)
    }

    fn frames(&self) -> Vec<Frame> {
        let mut top = TITLES + HEADER + self.mark_names();
        let mut frames = Vec::with_capacity(self.panels.len());
        for _ in &self.panels {
            let bottom = top + self.panel_height();
            frames.push(Frame { top, bottom });
            top = bottom + BETWEEN + HEADER;
        }
        frames
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (RIGHT - LEFT)
    }

    fn draw_marks<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>, frame: Frame) -> Drawn<DB> {
        for mark in &self.marks {
            let from = self.x(mark.from);
            match mark.until {
                Some(until) => canvas.rectangle(
                    (from, frame.top),
                    (self.x(until).max(from + 1.0), frame.bottom),
                    mark.paint,
                    0.13,
                )?,
                None => {
                    let line = [(from, frame.top), (from, frame.bottom)];
                    canvas.dashes(&line, mark.paint, 1.25)?;
                }
            }
        }
        Ok(())
    }

    /// Names marks; the first row stands right above the plot, the others above it.
    fn draw_mark_names<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>, y: f64) -> Drawn<DB> {
        for name in self.names_of_marks() {
            let at = (name.middle, y - name.row as f64 * MARK_NAMES);
            canvas.text(&name.mark.label, at, name_font(name.mark), Align::Center)?;
        }
        Ok(())
    }

    /// Which marks are named, and where: in the lowest row with room, so that no name runs into another. What
    /// has no room in any row is not named.
    fn names_of_marks(&self) -> Vec<MarkName<'_>> {
        let mut marks: Vec<&Mark> = self.marks.iter().collect();
        marks.sort_by(|one, other| one.from.total_cmp(&other.from));
        let mut names: Vec<MarkName<'_>> = Vec::new();
        for mark in marks.into_iter().filter(|mark| !mark.label.is_empty()) {
            let half = width_of(&mark.label, name_font(mark)) / 2.0;
            let from = self.x(mark.from);
            let middle = mark
                .until
                .map_or(from, |until| from.midpoint(self.x(until)));
            let middle = middle.clamp(LEFT + half - 20.0, RIGHT + 20.0 - half);
            let apart = |name: &MarkName<'_>, room: f64| {
                (name.middle - middle).abs() >= name.half + half + room
            };
            // The same fault many times over is named once per free stretch.
            let mut alike = names.iter().filter(|name| name.mark.label == mark.label);
            if !alike.all(|name| apart(name, 60.0)) {
                continue;
            }
            let is_free = |row: &usize| {
                let mut in_row = names.iter().filter(|name| name.row == *row);
                in_row.all(|name| apart(name, 8.0))
            };
            if let Some(row) = (0..MOST_ROWS).find(is_free) {
                names.push(MarkName {
                    mark,
                    middle,
                    half,
                    row,
                });
            }
        }
        names
    }

    fn draw_panel<DB: DrawingBackend>(
        &self,
        canvas: &Canvas<'_, DB>,
        panel: &Panel,
        frame: Frame,
    ) -> Drawn<DB> {
        let most = ((frame.bottom - frame.top) / 46.0).max(2.0) as usize;
        let axis = panel.y.to_a_tick(most);
        let y = |value: f64| frame.bottom - axis.place(value) * (frame.bottom - frame.top);
        for (value, text) in axis.ticks(most) {
            let at = y(value);
            canvas.line(&[(LEFT, at), (RIGHT, at)], Paint::Grid, 1.0)?;
            if panel.empty.is_none() {
                let font = plain(11.5, Paint::Muted);
                canvas.text(&text, (LEFT - 8.0, at), font, Align::Right)?;
            }
        }
        if let Some(empty) = panel.empty {
            let middle = ((LEFT + RIGHT) / 2.0, (frame.top + frame.bottom) / 2.0);
            canvas.text(empty, middle, plain(14.0, Paint::Muted), Align::Center)?;
        }
        for layer in &panel.layers {
            self.draw_layer(canvas, layer, &y, frame)?;
        }
        canvas.line(
            &[(LEFT, frame.bottom), (RIGHT, frame.bottom)],
            Paint::Grey,
            1.25,
        )?;
        let unit = match axis.unit() {
            "" => panel.unit.clone(),
            _ if panel.empty.is_some() => panel.unit.clone(),
            unit => format!("{}, {unit}", panel.unit),
        };
        self.draw_header(canvas, panel, &unit, frame.top - HEADER / 2.0 - 2.0)
    }

    /// The unit on the left, the legend on the right.
    fn draw_header<DB: DrawingBackend>(
        &self,
        canvas: &Canvas<'_, DB>,
        panel: &Panel,
        unit: &str,
        y: f64,
    ) -> Drawn<DB> {
        // In the first panel the names of marks stand between header and plot.
        let first = std::ptr::eq(panel, &raw const self.panels[0]);
        let y = if first { y - self.mark_names() } else { y };
        canvas.text(
            unit,
            (LEFT - 52.0, y),
            bold(12.0, Paint::Muted),
            Align::Left,
        )?;
        let font = plain(12.0, Paint::Ink);
        let mut right = RIGHT;
        if panel.empty.is_some() {
            return Ok(());
        }
        for layer in panel.layers.iter().rev() {
            let Some(label) = &layer.label else {
                continue;
            };
            let text = right - width_of(label, font);
            canvas.text(label, (text, y), font, Align::Left)?;
            let (from, to) = (text - 26.0, text - 6.0);
            match &layer.shape {
                Shape::Line(_) => canvas.line(&[(from, y), (to, y)], layer.paint, 2.5)?,
                Shape::Wide(_) => canvas.line(&[(from, y), (to, y)], layer.paint, 4.5)?,
                Shape::Dashed(_) => canvas.dashes(&[(from, y), (to, y)], layer.paint, 2.0)?,
                Shape::Area(_) | Shape::Band(_) | Shape::Bars(_) => {
                    let opacity = self.opacity(layer);
                    canvas.rectangle((from, y - 5.0), (to, y + 5.0), layer.paint, opacity)?;
                }
                Shape::Points(_) => canvas.dot((to - 8.0, y), 3.5, layer.paint)?,
            }
            right = from - 18.0;
        }
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "reads as a property of the drawing")]
    const fn opacity(&self, layer: &Layer) -> f64 {
        match layer.shape {
            Shape::Band(_) => 0.28,
            Shape::Area(_) => 0.14,
            Shape::Line(_)
            | Shape::Wide(_)
            | Shape::Dashed(_)
            | Shape::Bars(_)
            | Shape::Points(_) => 0.85,
        }
    }

    fn draw_layer<DB: DrawingBackend>(
        &self,
        canvas: &Canvas<'_, DB>,
        layer: &Layer,
        y: &dyn Fn(f64) -> f64,
        frame: Frame,
    ) -> Drawn<DB> {
        let opacity = self.opacity(layer);
        let runs = |points: &[(f64, Option<f64>)]| {
            let placed = points
                .iter()
                .map(|(x, value)| value.map(|value| (self.x(*x), y(value))));
            unbroken(placed)
        };
        match &layer.shape {
            Shape::Line(points) | Shape::Wide(points) => {
                let wide = matches!(layer.shape, Shape::Wide(_));
                let width = if wide { 4.5 } else { 1.75 };
                for run in runs(points) {
                    match run[..] {
                        [only] => canvas.dot(only, width * 1.5, layer.paint)?,
                        _ => canvas.line(&run, layer.paint, width)?,
                    }
                }
            }
            Shape::Dashed(points) => {
                for run in runs(points) {
                    canvas.dashes(&run, layer.paint, 1.5)?;
                }
            }
            Shape::Area(points) => {
                for mut run in runs(points) {
                    if let (Some(first), Some(last)) = (run.first(), run.last()) {
                        let ends = [(last.0, frame.bottom), (first.0, frame.bottom)];
                        run.extend(ends);
                        canvas.polygon(&run, layer.paint, opacity)?;
                    }
                }
            }
            Shape::Band(points) => {
                let placed = points
                    .iter()
                    .map(|(x, ends)| ends.map(|(low, high)| (self.x(*x), y(low), y(high))));
                for run in unbroken(placed) {
                    let high = run.iter().map(|(x, _, high)| (*x, *high));
                    let low = run.iter().rev().map(|(x, low, _)| (*x, *low));
                    let outline: Vec<_> = high.chain(low).collect();
                    canvas.polygon(&outline, layer.paint, opacity)?;
                }
            }
            Shape::Bars(bars) => {
                for (from, to, height) in bars {
                    let left = self.x(*from);
                    let right = self.x(*to).max(left + 1.0);
                    let top = y(*height).min(frame.bottom - 1.0);
                    canvas.rectangle((left, top), (right, frame.bottom), layer.paint, opacity)?;
                }
            }
            Shape::Points(points) => {
                for (x, value, text) in points {
                    let at = (self.x(*x), y(*value));
                    draw_point(canvas, at, text, layer.paint)?;
                }
            }
        }
        Ok(())
    }

    fn draw_time_axis<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>, y: f64) -> Drawn<DB> {
        let font = plain(11.5, Paint::Muted);
        for (value, text) in self.x.ticks(10) {
            let x = self.x(value);
            canvas.line(&[(x, y), (x, y + 5.0)], Paint::Grey, 1.25)?;
            canvas.text(&text, (x, y + 15.0), font, Align::Center)?;
        }
        let name = match self.x.unit() {
            "" => "part that is at most so slow".to_owned(),
            unit => format!("time since the start, {unit}"),
        };
        let middle = ((LEFT + RIGHT) / 2.0, y + 36.0);
        canvas.text(&name, middle, plain(12.0, Paint::Muted), Align::Center)
    }
}

const fn name_font(mark: &Mark) -> Type {
    bold(10.5, mark.paint)
}

/// A dot with a text. Curves rise to the right, so below it on the right is room.
fn draw_point<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    at: (f64, f64),
    text: &str,
    paint: Paint,
) -> Drawn<DB> {
    canvas.dot(at, 4.0, Paint::Paper)?;
    canvas.dot(at, 3.0, paint)?;
    let font = bold(11.5, Paint::Ink);
    let (place, align) = if at.0 + width_of(text, font) > RIGHT {
        ((at.0 - 2.0, at.1 + 15.0), Align::Right)
    } else {
        ((at.0 + 4.0, at.1 + 14.0), Align::Left)
    };
    canvas.text(text, place, font, align)
}

/// Stretches of values without a missing one between.
fn unbroken<T>(values: impl Iterator<Item = Option<T>>) -> Vec<Vec<T>> {
    let mut runs = vec![Vec::new()];
    for value in values {
        match value {
            Some(value) => {
                if let Some(run) = runs.last_mut() {
                    run.push(value);
                }
            }
            None => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_break_a_line() {
        let runs = unbroken([None, Some(1), Some(2), None, None, Some(3)].into_iter());
        assert_eq!(runs, [vec![1, 2], vec![3]]);
        assert!(unbroken([None::<u8>].into_iter()).is_empty());
    }

    fn chart(marks: Vec<Mark>) -> Chart {
        let mut record = crate::report::empty_record();
        record.summary.duration_ns = 1_000;
        Chart {
            marks,
            ..crate::report::chart::throughput(&crate::report::RunResult::new(record))
        }
    }

    fn mark(from: f64, until: Option<f64>, label: &str) -> Mark {
        Mark {
            from,
            until,
            label: label.to_owned(),
            paint: Paint::Red,
        }
    }

    #[test]
    fn names_of_marks_at_one_moment_stand_in_rows_and_never_overlap() {
        let plain = chart(vec![mark(500.0, None, "")]);
        let crowd = chart(vec![
            mark(400.0, Some(600.0), "link cut"),
            mark(400.0, Some(600.0), "routes held"),
            mark(500.0, None, "server restarted"),
            mark(505.0, None, "leader n2"),
            mark(900.0, None, "stall"),
            mark(400.0, Some(600.0), "link cut"),
        ]);
        let names = crowd.names_of_marks();
        let rows: Vec<_> = names
            .iter()
            .map(|name| (name.mark.label.as_str(), name.row))
            .collect();
        let expected = [
            ("link cut", 0),
            ("routes held", 1),
            ("server restarted", 2),
            ("leader n2", 3),
            ("stall", 0),
        ];
        assert_eq!(rows, expected);
        assert!((crowd.height() - plain.height() - 4.0 * MARK_NAMES).abs() < 1e-9);
        let many = (0..200).map(|at| mark(f64::from(at), Some(800.0), &format!("fault {at}")));
        let many = chart(many.collect());
        let names = many.names_of_marks();
        assert!(names.len() >= MOST_ROWS);
        for (index, one) in names.iter().enumerate() {
            for other in &names[index + 1..] {
                let apart = (one.middle - other.middle).abs() >= one.half + other.half;
                assert!(
                    one.row != other.row || apart,
                    "{} {}",
                    one.mark.label,
                    other.mark.label
                );
            }
        }
    }
}
