// Runs parts of a computation on a fixed set of threads, and waits for all of them.
#include <truestep/distributed/workers.hpp>

#include <string>
#include <system_error>

#include <truestep/problem/error.hpp>

namespace truestep::distributed {

void check_threads(int threads) {
    if (threads < 1)
        throw Error("threads is " + std::to_string(threads) + "; at least 1 is needed");
}

Workers::Workers(int threads) {
    check_threads(threads);
    try {
        for (int part = 0; part + 1 < threads; ++part)
            threads_.emplace_back([this, part] { serve(part); });
    } catch (const std::system_error& error) {
        stop();
        throw Error("threads is " + std::to_string(threads) + ", but only " +
                    std::to_string(threads_.size()) + " could be started (" + error.what() +
                    "); use fewer");
    }
}

Workers::~Workers() {
    stop();
}

void Workers::stop() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    begin_.notify_all();
    for (std::thread& thread : threads_)
        thread.join();
}

void Workers::run(const Task& task) {
    {
        const std::lock_guard lock(mutex_);
        task_ = &task;
        busy_ = static_cast<int>(threads_.size());
        ++round_;
    }
    begin_.notify_all();
    task(static_cast<int>(threads_.size()));
    std::unique_lock lock(mutex_);
    end_.wait(lock, [this] { return busy_ == 0; });
}

void Workers::serve(int part) {
    std::size_t seen = 0;
    while (true) {
        const Task* task = nullptr;
        {
            std::unique_lock lock(mutex_);
            begin_.wait(lock, [&] { return stop_ || round_ != seen; });
            if (stop_)
                return;
            seen = round_;
            task = task_;
        }
        (*task)(part);
        const std::lock_guard lock(mutex_);
        if (--busy_ == 0)
            end_.notify_one();
    }
}

} // namespace truestep::distributed
