"""Training until the 15th of March, evaluation from then on, by the day of each record."""
import datetime

stamps = range(1773446400, 1773705600, 3600)  # three days around it, one record an hour
border = datetime.date(2026, 3, 15)
train = [t for t in stamps if datetime.date.fromtimestamp(t) < border]
print(len(train), "records to train with, mean", sum(t % 86400 for t in train) / len(train))
