//! Parameters of enabled options, exchanged between SB and SE. The handler of an option processes
//! its subnegotiations; the rules of this file apply to all options.

use super::inspector::Direction;
use super::option::Invalid;
use super::option::start_tls::Progress;
use super::{AskError, Event, OptionCode, Side, Telnet};
use net::Cx;
use net::meter::Counter;

impl Telnet {
    pub(super) fn on_subnegotiation(&mut self, cx: &mut Cx<'_>) -> Option<Event<'static>> {
        let (option, content) = self.decoder.subnegotiation()?;
        let tls = self.options.handlers.start_tls.progress();
        let (handler, mut context) =
            self.options.handler(option, &mut self.output, &mut self.inspector, cx);
        context.inspect(Direction::Received, content);
        if tls == Progress::FollowsSent && option != OptionCode::START_TLS {
            cx.meter.count(Counter::TelnetItemsBeforeTls);
            return None;
        }
        match handler.map(|handler| handler.receive(content, &mut context)) {
            Some(Ok(event)) => event,
            Some(Err(Invalid)) | None => {
                cx.meter.count(Counter::TelnetSubnegotiationsWrong);
                None
            }
        }
    }

    /// Sends a subnegotiation about an option that `side` performs.
    pub(super) fn send_in_force(
        &mut self,
        side: Side,
        option: OptionCode,
        content: &[u8],
        cx: &mut Cx<'_>,
    ) -> Result<(), AskError> {
        if !self.is_in_force(side, option) {
            return Err(AskError::NotEnabled);
        }
        let has_room = self.send_subnegotiation(option, content, cx);
        if has_room { Ok(()) } else { Err(AskError::OutputFull) }
    }

    /// Queues a subnegotiation. Returns whether it fit into the queue.
    pub(super) fn send_subnegotiation(
        &mut self,
        option: OptionCode,
        content: &[u8],
        cx: &mut Cx<'_>,
    ) -> bool {
        let (_, mut context) =
            self.options.handler(option, &mut self.output, &mut self.inspector, cx);
        context.send(content)
    }
}
