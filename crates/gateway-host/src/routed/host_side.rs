//! The kernel's side of a routed gateway: the TUN, its routes, and the interface that answers ARP
//! and Neighbor Discovery for the addresses of the plan.
//!
//! Dropping the value restores the settings of that interface and removes its entries; the TUN and
//! its routes end with their descriptor. After SIGKILL, the entries and the settings stay. The next
//! start removes the entries.

use super::address_plan::{AddressPlan, HOST_MTU};
use super::routed_error::RoutedError;
use os::interface::{Interface, InterfaceError};
use os::interface_setting::{self, ChangedSetting};
use os::tun::{Tun, TunError};
use os::{interface_route, proxy_neighbor};
use std::io;
use std::net::IpAddr;

/// Name of the TUN; the kernel selects the number.
const TUN_NAME: &str = "plumb%d";

/// The TUN and the settings of the host.
#[derive(Debug)]
pub(super) struct HostSide {
    pub(super) tun: Tun,
    /// The setting of the TUN, which ends with it.
    _forwarding: Option<ChangedSetting>,
    proxy: Option<Proxy>,
}

/// The interface at which the kernel answers for addresses of the plan.
#[derive(Debug)]
struct Proxy {
    interface: Interface,
    addresses: Vec<IpAddr>,
    /// Settings that are restored at the end.
    settings: Vec<ChangedSetting>,
}

impl HostSide {
    /// Opens the TUN, and configures the host for the addresses of `plan`. If a step fails, the
    /// previous ones are undone.
    pub(super) fn set_up(plan: &AddressPlan, proxy: Option<&str>) -> Result<Self, RoutedError> {
        let proxy = proxy.map(|name| Ok::<_, RoutedError>((name, Interface::named(name)?)));
        let proxy = proxy.transpose()?;
        if let Some((_, interface)) = &proxy {
            for address in proxy_neighbor::abandoned(interface)? {
                proxy_neighbor::remove(interface, address)?;
            }
        }
        for (address, _) in plan.routes() {
            let route = interface_route::to(address).map_err(InterfaceError::Other)?;
            if route.is_some_and(|route| route.is_local) {
                return Err(RoutedError::OwnAddress(address));
            }
        }
        if plan.has_ipv6() && read("ipv6/conf/all/forwarding")? == "0" {
            return Err(RoutedError::NoForwarding6);
        }
        let tun = Tun::open(Some(TUN_NAME)).map_err(|error| match error {
            TunError::DeviceNotPermitted | TunError::InterfaceNotPermitted(..) => {
                RoutedError::NotPermitted
            }
            error => RoutedError::Tun(error),
        })?;
        let interface = Interface::named(tun.name())?;
        interface.set_mtu(HOST_MTU)?;
        interface.bring_up()?;
        let forwarding = set(&format!("ipv4/conf/{}/forwarding", tun.name()))?;
        for (address, bits) in plan.routes() {
            interface_route::add(&interface, address, bits).map_err(|error| match error {
                InterfaceError::Refused(_, reason)
                    if reason.kind() == io::ErrorKind::AlreadyExists =>
                {
                    RoutedError::RouteExists(address)
                }
                error => error.into(),
            })?;
        }
        let proxy = proxy.map(|(name, interface)| Proxy::start(name, interface, plan));
        let proxy = proxy.transpose()?;
        Ok(Self { tun, _forwarding: forwarding, proxy })
    }

    /// Returns the addresses for which the interface answers.
    pub(super) fn answered(&self) -> &[IpAddr] {
        self.proxy.as_ref().map(|proxy| proxy.addresses.as_slice()).unwrap_or_default()
    }
}

impl Proxy {
    fn start(name: &str, interface: Interface, plan: &AddressPlan) -> Result<Self, RoutedError> {
        let mut settings = vec![format!("ipv4/conf/{name}/forwarding")];
        if plan.has_ipv6() {
            settings.push(format!("ipv6/conf/{name}/proxy_ndp"));
        }
        let mut proxy = Self { interface, addresses: Vec::new(), settings: Vec::new() };
        for setting in settings {
            proxy.settings.extend(set(&setting)?);
        }
        for address in plan.neighbors() {
            proxy_neighbor::add(&proxy.interface, address)?;
            proxy.addresses.push(address);
        }
        Ok(proxy)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for address in &self.addresses {
            // The interface may be gone, and its entries with it.
            _ = proxy_neighbor::remove(&self.interface, *address);
        }
        self.settings.clear();
    }
}

fn set(setting: &str) -> Result<Option<ChangedSetting>, RoutedError> {
    let changed = ChangedSetting::set(setting, "1");
    changed.map_err(|error| RoutedError::Setting(setting.to_owned(), error))
}

fn read(setting: &str) -> Result<String, RoutedError> {
    let value = interface_setting::read(setting);
    value.map_err(|error| RoutedError::Setting(setting.to_owned(), error))
}
