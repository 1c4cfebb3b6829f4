mod dice;
mod history;
fn main() {}
