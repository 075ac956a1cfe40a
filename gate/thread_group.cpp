#include <scape/gate/group.hpp>

#include <scape/distributed/in_process.hpp>

namespace scape::gate {

namespace {

class ThreadGroup final : public Group {
  public:
    explicit ThreadGroup(std::chrono::milliseconds timeout) : timeout_(timeout) {}

    std::string name() const override { return "in_process"; }
    bool takes(int workers) const override { return workers >= 1; }
    void run(int workers, const Work& work) const override {
        distributed::run_ranks(workers, work, timeout_);
    }
    std::vector<Bytes> exchange(int workers, const std::function<Bytes(int)>& mine) const override {
        std::vector<Bytes> all;
        all.reserve(static_cast<std::size_t>(workers));
        for (int rank = 0; rank < workers; ++rank)
            all.push_back(mine(rank));
        return all;
    }

  private:
    std::chrono::milliseconds timeout_;
};

} // namespace

std::shared_ptr<const Group> make_thread_group(std::chrono::milliseconds timeout) {
    return std::make_shared<ThreadGroup>(timeout);
}

} // namespace scape::gate
