//! NUL after CR in data that arrives by Telnet without BINARY.
//!
//! RFC 854 requires a NUL after each CR that does not end a line; the receiver drops it. Some servers,
//! such as that of busybox, send the output of their programs unchanged, so that a NUL after a CR is
//! data. The check of a block or subpacket decides: from the first such NUL, two copies of the parser
//! process the input, one without and one with the NULs. The first copy whose check is valid
//! continues. Later units are parsed in the same way, until one is damaged.

/// Parser of units with a check.
pub(crate) trait UnitParser: Clone {
    /// A unit, or an error.
    type Unit;

    /// Returns whether the next byte belongs to a unit with a check.
    fn is_in_unit(&self) -> bool;

    /// Returns whether `unit` has a valid check.
    fn is_valid(unit: &Self::Unit) -> bool;
}

/// A parser, and the copy that processes the NULs of the current unit.
#[derive(Clone, Debug)]
pub(crate) struct NulAfterCr<P> {
    parser: P,
    with_nul: Option<P>,
    /// Whether the current unit contains a NUL after a CR.
    has_nul: bool,
    /// Whether NULs after CR are data, if a valid unit has shown it.
    is_data: Option<bool>,
}

impl<P: UnitParser> NulAfterCr<P> {
    pub(crate) const fn new(parser: P) -> Self {
        Self { parser, with_nul: None, has_nul: false, is_data: None }
    }

    /// Returns the parser.
    pub(crate) const fn parser(&self) -> &P {
        &self.parser
    }

    /// Returns the parser for the start of another unit.
    pub(crate) fn restart(&mut self) -> &mut P {
        self.with_nul = None;
        self.has_nul = false;
        &mut self.parser
    }

    /// Processes a byte by `push`.
    pub(crate) fn push(
        &mut self,
        byte: u8,
        push: impl Fn(&mut P, u8) -> Option<P::Unit>,
    ) -> Option<P::Unit> {
        let unit = push(&mut self.parser, byte);
        if let Some(other) = &mut self.with_nul {
            let other_unit = push(other, byte);
            return self.choose(unit, other_unit);
        }
        if let Some(unit) = &unit {
            self.end_unit(P::is_valid(unit));
        }
        unit
    }

    /// Processes a NUL after a CR by `push`.
    pub(crate) fn push_nul(
        &mut self,
        push: impl Fn(&mut P, u8) -> Option<P::Unit>,
    ) -> Option<P::Unit> {
        if !self.parser.is_in_unit() {
            return None;
        }
        match self.is_data {
            Some(true) => return self.push(0, push),
            Some(false) => return None,
            None if !self.has_nul => self.with_nul = Some(self.parser.clone()),
            None => {}
        }
        self.has_nul = true;
        let other_unit = push(self.with_nul.as_mut()?, 0);
        self.choose(None, other_unit)
    }

    /// Returns the unit of the copy that is valid. The copy with the NULs never ends later.
    fn choose(&mut self, unit: Option<P::Unit>, other_unit: Option<P::Unit>) -> Option<P::Unit> {
        if unit.as_ref().is_some_and(P::is_valid) {
            self.end_unit(true);
            return unit;
        }
        if other_unit.as_ref().is_some_and(P::is_valid) {
            self.parser = self.with_nul.take()?;
            self.has_nul = false;
            self.is_data = Some(true);
            return other_unit;
        }
        if other_unit.is_some() {
            self.with_nul = None;
        }
        if unit.is_some() {
            self.end_unit(false);
        }
        unit
    }

    /// Records the end of a unit of the parser without the NULs.
    fn end_unit(&mut self, is_valid: bool) {
        self.with_nul = None;
        match (is_valid, core::mem::take(&mut self.has_nul)) {
            (false, _) => self.is_data = None,
            (true, true) => self.is_data = Some(false),
            (true, false) => {}
        }
    }
}
