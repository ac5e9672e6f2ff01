print("apns-bench")
