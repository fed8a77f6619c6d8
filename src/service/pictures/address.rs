//! F4: which addresses are on the public internet.
//!
//! By the registries of special-purpose addresses (RFC 6890 and what came after it); what carries an IPv4 address within is as public as
//! that one is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is one that anybody could reach: nothing of this machine, of a network around it, or of no host at all.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        // This network, private, carrier-grade NAT, loopback, link-local, private.
        (0 | 10 | 127, ..) | (100, 64..=127, _) | (169, 254, _) | (172, 16..=31, _)
        // Protocol assignments, documentation, relays of 6to4, private.
        | (192, 0, 0 | 2) | (192, 88, 99) | (192, 168, _)
        // Benchmarks, documentation, multicast and what is reserved.
        | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) | (224.., ..)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |at: usize| {
        let [a, b] = [segments[at], segments[at + 1]].map(u16::to_be_bytes);
        is_public_v4(Ipv4Addr::new(a[0], a[1], b[0], b[1]))
    };
    match segments {
        // IPv4-mapped, and NAT64 by the well-known prefix.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => embedded(6),
        // 6to4.
        [0x2002, ..] => embedded(1),
        // Protocol assignments (Teredo, ORCHID and others), documentation.
        [0x2001, ..0x200, ..] | [0x2001, 0xdb8, ..] | [0x3fff, ..0x1000, ..] => false,
        // All that is given to hosts so far.
        [0x2000..0x4000, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(is: bool, addresses: &[&str]) {
        for address in addresses {
            assert_eq!(is_public(address.parse().expect("an address")), is, "{address}");
        }
    }

    #[test]
    fn hosts_of_the_internet_are_public() {
        check(true, &["1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.0.0.1"]);
        check(
            true,
            &["128.0.0.1", "169.253.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1", "192.167.0.1", "223.255.255.254"],
        );
        check(true, &["2606:4700:4700::1111", "2001:4860:4860::8888", "2001:200::1", "2a00::1", "3fff:1000::1"]);
        // Within other addresses.
        check(true, &["::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]);
    }

    #[test]
    fn nothing_else_is() {
        check(false, &["0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255"]);
        check(false, &["127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.1", "172.31.255.255"]);
        check(false, &["192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255"]);
        check(false, &["198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"]);
        check(false, &["::", "::1", "::7f00:1", "fe80::1", "fec0::1", "fc00::1", "fd12::1", "ff02::1", "100::1"]);
        check(false, &["2001::1", "2001:10::1", "2001:20::1", "2001:1ff::1", "2001:db8::1", "3fff::1", "5f00::1"]);
        check(false, &["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1"]);
        check(
            false,
            &["64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101::1"],
        );
        check(false, &["::ffff:0:127.0.0.1", "4000::1", "ffff::1"]);
    }
}
