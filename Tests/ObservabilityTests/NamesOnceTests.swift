import Observability
import Testing

@Suite struct NamesOnceTests {
    @Test(arguments: [
        ("kafka: kafka: no broker answers", "kafka: no broker answers"),
        ("topic t: t: denied", "topic t: denied"),
        ("app shop: app shop: refused", "app shop: refused"),
        ("proxy 127.0.0.1:1: 127.0.0.1:1: Connection refused", "proxy 127.0.0.1:1: Connection refused"),
        (
            "localhost:1 could not be reached in time: localhost:1: 127.0.0.1:1: Connection refused",
            "localhost:1 could not be reached in time: 127.0.0.1:1: Connection refused"
        ),
        (
            "cannot connect to [::1]:443: [::1]:443: Connection refused",
            "cannot connect to [::1]:443: Connection refused"
        ),
        ("a: b: a: b: c", "a: b: c"),
        // The cause is never removed, nor a word that only resembles a name.
        ("t: t", "t: t"), ("topic ab: b: denied", "topic ab: b: denied"),
        ("app shop: shop.example:443: refused", "app shop: shop.example:443: refused"),
        ("two  spaces:  stay: here", "two  spaces:  stay: here"), ("a:b:a:b", "a:b:a:b"), ("", ""), (": : x", ": : x"),
    ])
    func `A message contains each name once`(message: String, expected: String) {
        #expect(namesOnce(message) == expected)
    }
}
