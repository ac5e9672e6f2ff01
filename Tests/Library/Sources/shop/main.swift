import Foundation
import PushRecords

// shop SERVERS REQUESTS RESULTS UNREGISTERED: sends an order notification to two devices, news to three, and updates a
// Live Activity and a widget. Then it reads the results, and deletes the device that is unregistered. Exits with 0 if
// everything is as expected.

let arguments = CommandLine.arguments
guard arguments.count == 5 else {
    print("Usage: shop SERVERS REQUESTS RESULTS UNREGISTERED")
    exit(64)
}
let kafka = Kcat(servers: arguments[1])
let (requests, results, unregistered) = (arguments[2], arguments[3], arguments[4])

/// The shop's devices, with the time at which each was last seen.
var devices: [DeviceToken: Int64] = [:]
let now = Int64(Date().timeIntervalSince1970 * 1_000)
for (number, prefix) in ["00000001", "00000002", "00000003", "00000004", "fa174101"].enumerated() {
    // The last token has been unregistered since September 2020.
    let token = try DeviceToken(hex: prefix + String(repeating: "0", count: 56))
    devices[token] = number < 4 ? now : 1_500_000_000_000
}
let tokens = devices.keys.sorted { $0.hex < $1.hex }

/// The shop's own data of an order.
struct Order: Encodable {
    var id: Int
    var isPaid = true
    var items = ["tea", "milk"]
    var placedAt = Date(timeIntervalSinceReferenceDate: 700_000_000)
}

// Two orders: the payload form, one record each.
for (number, token) in tokens.prefix(2).enumerated() {
    var payload = AlertPayload(title: "Order \(number)", body: "is on its way \u{1F69A}")
    payload.sound = .standard
    payload.interruptionLevel = .timeSensitive
    payload.custom["order"] = try PayloadValue(encoding: Order(id: number))
    var order = PushNotification(payload, topic: .bundleID("com.example.shop"))
    order.collapseID = "order-\(number)"
    order.expiration = .at(secondsSinceEpoch: now / 1_000 + 3_600)
    var record = try order.payloadRecord(to: token)
    record.headers.append(HeaderField("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
    try kafka.produce(record, to: requests)
}

// News for three: the envelope form, one record for all.
var news = PushNotification(BackgroundPayload(custom: ["shelf": 7]), topic: .bundleID("com.example.shop"))
news.expiration = .nowOrNever
try kafka.produce(news.envelopeRecord(to: tokens.suffix(3)), to: requests)

// The courier is near: update a Live Activity, and reload the widget.
var courier = LiveActivityUpdate(
    contentState: ["minutes": 4, "street": "Römerstraße"], timestamp: UnixTime(secondsSinceEpoch: now / 1_000))
courier.alert = LiveActivityAlert(title: "Your order", body: "arrives in four minutes", sound: .standard)
var update = PushNotification(courier, topic: .bundleID("com.example.shop"))
update.priority = .powerConsiderate
try kafka.produce(update.payloadRecord(to: tokens[0]), to: requests)
let reload = PushNotification(WidgetsPayload(), topic: .bundleID("com.example.shop"))
try kafka.produce(reload.payloadRecord(to: tokens[1]), to: requests)

// Read the results and the dead tokens.
var isRight = true
var topics: [String: Int] = [:]
for value in try kafka.consume(results, count: 7) {
    let result = try DeliveryResult(json: value)
    print("\(result.request): \(result.outcome) \(result.reason?.rawValue ?? "") \(result.device?.description ?? "")")
    let expected: Outcome = result.deviceToken == tokens[4].hex ? .unregistered : .accepted
    isRight = isRight && result.outcome == expected && result.attempts == 1
    topics[result.apnsTopic ?? "", default: 0] += 1
}
isRight =
    isRight
    && topics == [
        "com.example.shop": 5, "com.example.shop.push-type.liveactivity": 1, "com.example.shop.push-type.widgets": 1,
    ]
for value in try kafka.consume(unregistered, count: 1) {
    let dead = try UnregisteredToken(json: value)
    let token = try DeviceToken(hex: dead.deviceToken)
    guard let seen = devices[token], dead.isDead(registeredAtMs: seen) else { continue }
    print("forgotten: \(token), gone since \(dead.unregisteredAtMs ?? 0)")
    devices[token] = nil
}
isRight = isRight && devices.count == 4
print(isRight ? "all is well" : "the results or the devices are not as expected")
exit(isRight ? 0 : 1)
