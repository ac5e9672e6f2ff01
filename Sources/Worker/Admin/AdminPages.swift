internal import Configuration
internal import EventLoop
internal import HTTPServer
internal import Observability

/// The admin endpoint (`admin.listen`), which only reads. Handlers run on the page server's thread and read the board.
struct AdminPages: Sendable {
    let board: StatusBoard

    var routes: [Route] {
        [
            Route(.get, "/") { [board] _ in .html(StatusPage(board.newest).text) },
            Route(.get, "/livez") { [board] _ in
                board.isAlive(nowNs: LoopTime.read().monotonicNs)
                    ? .text("alive\n") : .text("the core thread has not turned for 10 s\n", status: 503)
            },
            Route(.get, "/readyz") { [board] _ in Self.readiness(board.newest) },
            Route(.get, "/metrics") { [board] _ in
                HTTPResponse(
                    contentType: PrometheusText.contentType,
                    body: .bytes(Array(MetricsText(board.newest, ProcessFigures.read()).text.utf8)))
            },
            Route(.get, "/status") { [board] _ in .json(StatusValue.object(board.newest.status).json) },
        ]
    }

    /// 200 once the groups were joined. A later outage leaves the worker ready, or no rollout could ever fix it.
    private static func readiness(_ snapshot: WorkerSnapshot) -> HTTPResponse {
        if snapshot.isReady { return .text("ready\n") }
        let reason =
            switch snapshot.phase {
            case .starting, .running: snapshot.problems.first?.text ?? "starting"
            case .joining: "waiting for the group's first assignment"
            case .stopping: "stopping before it was ready"
            }
        return .text("not ready: \(reason)\n", status: 503)
    }

    /// Serves the pages, unless the configuration turns them off.
    ///
    /// - Throws: `StartFailure` when the address cannot be listened on.
    static func serve(_ settings: AdminSettings, board: StatusBoard) throws(StartFailure) -> PageServer? {
        guard let listen = settings.listen else { return nil }
        do {
            return try PageServer(
                host: listen.host, port: UInt16(clamping: listen.port), routes: Self(board: board).routes)
        } catch {
            throw StartFailure([
                "admin.listen: \(error); choose another address, or turn the pages off (admin: {listen: off})"
            ])
        }
    }
}
