//! stub
/// stub
pub struct Row;
/// stub
pub struct Table;
/// stub
pub fn tables() {}
#[cfg(test)]
mod tests {
    use super::super::*;
    #[test]
    fn p() {
        for r in [4800, 9600, 19200, 23040] {
            println!("{r} echo {:?} screen {:?}", echo_ns(r, 100), screenful(r));
        }
        println!("{:?}", maximum_transfer(9600, protocols::time::Duration::from_secs(600)));
        for n in [1, 466, 500] {
            for c in [Content::CarriageReturns, Content::Printable, Content::NotPrinted] {
                println!("{n} {c:?} {:?}", packet_transfer_ns(9600, n, c));
            }
        }
    }
}
