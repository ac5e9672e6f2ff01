/// The circuit of one topic of an app, where Apple says that the key is for others only. There while it is open.
struct TopicCircuit {
    static let limit = 1_000

    var app: Int
    var topic: [UInt8]
    var circuit = Circuit()
}
