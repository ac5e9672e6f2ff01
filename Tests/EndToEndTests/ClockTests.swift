import Foundation
import TestSupport
import Testing

extension EndToEnd {
    @Suite struct ClockTests {
        /// The worker's clock is two days ahead, or ten days behind. The producer and the broker have the right time.
        @Test(
            .needs(.worker, .broker, .kcat, .clang),
            arguments: [
                (172_800, "ahead of", #"cause="clock""#, "expired"),
                (-864_000, "behind", #"cause="scheduled""#, "invalid"),
            ])
        func `A wrong clock is reported, and its requests are sent once it is right`(
            seconds: Int, words: String, cause: String, outcome: String
        ) throws {
            let scene = try Scene("clock", partitions: 1)
            let built = try Scene.run(
                "clang", ["-shared", "-fPIC", "-w", "-o", scene.file("clock.so"), Scene.book("clock.c"), "-ldl"])
            try #require(built.ending == .exited(0), "\(built.text)")
            scene.configuration.admin = "127.0.0.1:0"
            scene.configuration.more = "drain: {shutdown: 1s}"
            let wrong = try scene.startWorker(
                environment: ["LD_PRELOAD": scene.file("clock.so"), "CLOCK_SHIFT_S": "\(seconds)"])
            var pages = try Pages(of: wrong)
            try pages.await("/metrics", says: #"apns_worker_lag_records{role="requests"} 0"#)
            for count in 1...3 {
                let token = hex(count, digits: 64)
                let later = "push-not-before=\(Int(Date().timeIntervalSince1970) + 2)"
                try scene.send(to: [token], headers: ["apns-topic=com.example.shop"] + (seconds < 0 ? [later] : []))
                try pages.await("/metrics") { Pages.sum("apns_worker_held_total", cause, in: $0.1) >= count }
            }
            try pages.awaitProblem("machine", "this machine's clock is \(abs(seconds) / 3_600) hours \(words)")
            let metrics = try pages.get("/metrics").1
            #expect(Pages.sum("apns_worker_notifications_total", "outcome=\"\(outcome)\"", in: metrics) == 0)
            try scene.stop(wrong)

            let right: ChildProcess
            (right, pages) = try scene.startWorkerWithPages()
            try pages.await("/metrics") {
                Pages.sum("apns_worker_notifications_total", #"outcome="accepted""#, in: $0.1) == 3
            }
            try scene.finish(right)
        }
    }
}
