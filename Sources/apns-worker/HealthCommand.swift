import Configuration

private struct HealthOptions {
    var address = NetworkAddress(host: "127.0.0.1", port: 9464)
    var asksReadiness = false
    var page: String { asksReadiness ? "/readyz" : "/livez" }
}

private let healthTable = OptionTable<HealthOptions>(
    command: "apns-worker health", usage: ["[OPTIONS]"],
    about: [
        "Asks the admin endpoint of a running worker whether the worker is alive. Use the command as the health check of a container without a shell.",
        "Example: apns-worker health --listen 127.0.0.1:9464",
    ],
    options: [
        .init(
            "listen", value: "HOST:PORT", "The admin endpoint, as in admin.listen (default 127.0.0.1:9464)."
        ) { options, text in
            options.address = try OptionValue.accept(
                text, "HOST:PORT (an IPv6 address in brackets: [::1]:9464)", NetworkAddress(text))
        },
        .init("ready", sets: \.asksReadiness, "Ask whether the worker has joined its consumer groups (/readyz)."),
    ],
    notes: "Exit codes: 0 the worker answers 200, 1 it answers otherwise or not at all, 64 wrong usage.")

func askHealth(_ arguments: [String]) throws -> ExitCode {
    let options = try parsed(healthTable, arguments, HealthOptions())
    let answer = AdminAnswer(to: options.page, of: options.address)
    guard answer?.status != 200 else { return .fine }
    let place = "http://\(options.address)\(options.page)"
    complain("apns-worker health: \(place) \(answer.map { "answers \($0.statusLine)" } ?? "does not answer")")
    return .failed
}
